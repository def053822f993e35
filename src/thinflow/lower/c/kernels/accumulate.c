/* Numbers added to what is there. */
static void $name(const ${c_type} *x, ${c_type} *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] += x[i];
    }
}
