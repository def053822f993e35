#include <math.h>

typedef struct {
    float start, end, scale;
} ${name}_t;

/* Real numbers as they are after being kept in a few bits; halves away from zero. */
static void $name(const float *x, float *y, int32_t count, const ${name}_t *s)
{
    for (int32_t i = 0; i < count; i++) {
        const float inside = x[i] < s->start ? s->start : x[i] > s->end ? s->end : x[i];
        y[i] = roundf((inside - s->start) * (1.0f / s->scale)) * s->scale + s->start;
    }
}
