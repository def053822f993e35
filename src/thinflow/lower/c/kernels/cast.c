/* Numbers of another type. */
static void $name(const $x_type *x, $y_type *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = ($y_type)x[i];
    }
}
