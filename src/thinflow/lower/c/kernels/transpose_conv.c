#include "requantize_$rounding.c"
#include "window.c"

typedef struct {
    window_t window; /* of the output over the input: the picture that is written has the pads */
    int32_t x_zero_point, w_zero_point;
    requantize_${rounding}_t output;
} ${name}_t;

/* Each pixel of the output is the sum of those of the input whose window it is in; filters [out, height, width, in]. */
static void $name(const ${c_type} *x, ${c_type} *y, const int8_t *w, const ${name}_t *s)
{
    const window_t *t = &s->window;
    for (int32_t b = 0; b < t->batches; b++, x += t->in_height * t->in_width * t->in_channels) {
        for (int32_t out_y = 0; out_y < t->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < t->out_width; out_x++) {
                for (int32_t f = 0; f < t->out_channels; f++) {
                    ${sum_type} sum = s->output.bias[f];
                    for (int32_t i = 0; i < t->height; i++) {
                        const int32_t down = out_y + t->pad_top - i;
                        if (down < 0 || down % t->stride_y != 0 || down / t->stride_y >= t->in_height) {
                            continue;
                        }
                        for (int32_t j = 0; j < t->width; j++) {
                            const int32_t across = out_x + t->pad_left - j;
                            if (across < 0 || across % t->stride_x != 0 || across / t->stride_x >= t->in_width) {
                                continue;
                            }
                            const ${c_type} *pixel =
                                x + (down / t->stride_y * t->in_width + across / t->stride_x) * t->in_channels;
                            const int8_t *tap = w + ((f * t->height + i) * t->width + j) * t->in_channels;
                            for (int32_t c = 0; c < t->in_channels; c++) {
                                sum += (pixel[c] - s->x_zero_point) * (tap[c] - s->w_zero_point);
                            }
                        }
                    }
                    *y++ = (${c_type})requantize_$rounding(sum, &s->output, f);
                }
            }
        }
    }
}
