#include "requantize_wide.c"
#include "window.c"

typedef struct {
    window_t window;
    int32_t multiplier; /* filters for each channel of the input */
    requantize_wide_t output;
} ${name}_t;

/* Each channel by its own filters. */
static void $name(const int16_t *x, int16_t *y, const int8_t *w, const ${name}_t *s)
{
    const window_t *t = &s->window;
    for (int32_t b = 0; b < t->batches; b++, x += t->in_height * t->in_width * t->in_channels) {
        for (int32_t out_y = 0; out_y < t->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < t->out_width; out_x++) {
                for (int32_t c = 0; c < t->out_channels; c++) {
                    int64_t sum = s->output.bias[c];
                    for (int32_t i = 0; i < t->height; i++) {
                        for (int32_t j = 0; j < t->width; j++) {
                            const int32_t in_y = out_y * t->stride_y - t->pad_top + i * t->dilation_y;
                            const int32_t in_x = out_x * t->stride_x - t->pad_left + j * t->dilation_x;
                            if (in_y >= 0 && in_y < t->in_height && in_x >= 0 && in_x < t->in_width) {
                                sum += x[(in_y * t->in_width + in_x) * t->in_channels + c / s->multiplier] *
                                       w[(i * t->width + j) * t->out_channels + c];
                            }
                        }
                    }
                    *y++ = (int16_t)requantize_wide(sum, &s->output, c);
                }
            }
        }
    }
}
