/* The same value everywhere. */
static void $name(${c_type} *y, int32_t count, ${c_type} value)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = value;
    }
}
