#include <math.h>

/* Square roots of 16 bits, by way of reals and towards zero; 0 of what is negative. */
static void $name(const int16_t *x, int16_t *y, int32_t count, float x_scale, float y_scale)
{
    for (int32_t i = 0; i < count; i++) {
        const float root = sqrtf(x_scale * (float)(x[i] < 0 ? 0 : x[i])) / y_scale;
        y[i] = (int16_t)(root < 32767.0f ? root : 32767.0f);
    }
}
