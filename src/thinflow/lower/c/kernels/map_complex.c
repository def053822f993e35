#include <math.h>

/* A real number of each complex one. */
static void $name(const float *x, float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const float re = x[2 * i], im = x[2 * i + 1];
        (void)re;
        (void)im;
        y[i] = $expression;
    }
}
