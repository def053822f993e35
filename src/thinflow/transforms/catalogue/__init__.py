"""Named orders of transforms, and what each transform says of itself."""
