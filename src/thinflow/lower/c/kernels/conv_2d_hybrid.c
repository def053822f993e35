#include "window.c"

typedef struct {
    window_t window;
    int32_t filter_channels, depthwise, step; /* depthwise: filters for each channel of the input, or 0 */
    const float *scales, *bias;
    float min, max;
} ${name}_t;

/* A convolution whose products are integers; each picture has a scale and a zero point. */
static void $name(const int8_t *x, const float *scales, const int32_t *zero_points, float *y, const int8_t *w,
                  const ${name}_t *s)
{
    const window_t *t = &s->window;
    const int32_t channels = s->filter_channels, per_group = s->depthwise > 0 ? s->depthwise : t->out_channels * channels / t->in_channels;
    for (int32_t b = 0; b < t->batches; b++, x += t->in_height * t->in_width * t->in_channels) {
        for (int32_t out_y = 0; out_y < t->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < t->out_width; out_x++) {
                for (int32_t f = 0; f < t->out_channels; f++) {
                    int32_t sum = 0;
                    for (int32_t i = 0; i < t->height; i++) {
                        for (int32_t j = 0; j < t->width; j++) {
                            const int32_t in_y = out_y * t->stride_y - t->pad_top + i * t->dilation_y;
                            const int32_t in_x = out_x * t->stride_x - t->pad_left + j * t->dilation_x;
                            if (in_y < 0 || in_y >= t->in_height || in_x < 0 || in_x >= t->in_width) {
                                continue;
                            }
                            const int8_t *pixel = x + (in_y * t->in_width + in_x) * t->in_channels + f / per_group * channels;
                            const int32_t tap = i * t->width + j;
                            const int8_t *weights =
                                s->depthwise > 0 ? w + tap * t->out_channels + f : w + (f * t->height * t->width + tap) * channels;
                            for (int32_t c = 0; c < channels; c++) {
                                sum += (pixel[c] - zero_points[b]) * weights[c];
                            }
                        }
                    }
                    const float value = (float)sum * s->scales[f * s->step] * scales[b] + s->bias[f];
                    *y++ = value < s->min ? s->min : value > s->max ? s->max : value;
                }
            }
        }
    }
}
