/* Bytes as they are. */
static void $name(void *y, const void *x, size_t bytes)
{
    memcpy(y, x, bytes);
}
