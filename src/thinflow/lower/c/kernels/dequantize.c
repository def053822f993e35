/* Integers as the real numbers they stand for. */
static void $name(const ${c_type} *x, float *y, int32_t count, float scale, int32_t zero_point)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = scale * (float)(x[i] - zero_point);
    }
}
