#include <math.h>

typedef struct {
    int32_t rows, depth, before, behind; /* neighbours on both sides */
    float bias, alpha, beta;
} ${name}_t;

/* Each channel over a power of the sum of squares of its neighbours. */
static void $name(const float *x, float *y, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, x += s->depth) {
        for (int32_t i = 0; i < s->depth; i++) {
            const int32_t first = i < s->before ? 0 : i - s->before;
            const int32_t end = s->depth - i <= s->behind ? s->depth : i + s->behind + 1;
            float sum = 0;
            for (int32_t k = first; k < end; k++) {
                sum += x[k] * x[k];
            }
            *y++ = x[i] * powf(s->bias + s->alpha * sum, -s->beta);
        }
    }
}
