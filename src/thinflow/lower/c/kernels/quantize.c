#include <math.h>

/* Real numbers as integers, ${how}. */
static void $name(const float *x, ${c_type} *y, int32_t count, float scale, int32_t zero_point, int32_t min, int32_t max)
{
    for (int32_t i = 0; i < count; i++) {
        float value = $expression;
        value = value < (float)(min - zero_point) ? (float)(min - zero_point) : value;
        value = value > (float)(max - zero_point) ? (float)(max - zero_point) : value;
        y[i] = (${c_type})((int32_t)value + zero_point);
    }
}
