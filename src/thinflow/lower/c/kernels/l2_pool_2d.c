#include <math.h>
#include "window.c"

typedef struct {
    window_t window;
    float min, max;
} ${name}_t;

/* The root of the mean square under each window, of what lies inside the picture. */
static void $name(const float *x, float *y, const ${name}_t *s)
{
    const window_t *w = &s->window;
    for (int32_t b = 0; b < w->batches; b++, x += w->in_height * w->in_width * w->in_channels) {
        for (int32_t out_y = 0; out_y < w->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < w->out_width; out_x++) {
                for (int32_t c = 0; c < w->in_channels; c++) {
                    float sum = 0;
                    int32_t count = 0;
                    for (int32_t i = 0; i < w->height; i++) {
                        for (int32_t j = 0; j < w->width; j++) {
                            const int32_t in_y = out_y * w->stride_y - w->pad_top + i;
                            const int32_t in_x = out_x * w->stride_x - w->pad_left + j;
                            if (in_y >= 0 && in_y < w->in_height && in_x >= 0 && in_x < w->in_width) {
                                const float value = x[(in_y * w->in_width + in_x) * w->in_channels + c];
                                sum += value * value;
                                count++;
                            }
                        }
                    }
                    const float root = sqrtf(sum / (float)count);
                    *y++ = root < s->min ? s->min : root > s->max ? s->max : root;
                }
            }
        }
    }
}
