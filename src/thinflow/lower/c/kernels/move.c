/* Bytes as they are, which may be where they are to be already. */
static void $name(void *y, const void *x, size_t bytes)
{
    if (y != x) {
        memcpy(y, x, bytes);
    }
}
