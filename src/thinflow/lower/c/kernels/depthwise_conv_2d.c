#include "requantize_$rounding.c"
#include "window.c"

typedef struct {
    window_t window;
    int32_t multiplier; /* filters for each channel of the input */
    int32_t kept;       /* rows of the input that are kept while the output may be written over them; 0 if it is elsewhere */
    int32_t x_zero_point, w_zero_point;
    requantize_${rounding}_t output;
} ${name}_t;

/* Each channel by its own filters: all sums of a pixel side by side, so that neighbours are added at once. */
static void $name(const ${c_type} *x, ${c_type} *y, const int8_t *w, int32_t *sums, ${c_type} *kept_rows,
                  const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->out_channels;
    const int32_t row_size = window->in_width * window->in_channels;
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t out_y = 0; out_y < window->out_height; out_y++) {
            if (s->kept > 0) {
                memcpy(kept_rows + (out_y % s->kept) * row_size, x + out_y * row_size, (size_t)row_size * sizeof *x);
            }
            for (int32_t out_x = 0; out_x < window->out_width; out_x++) {
                const int8_t *tap = w;
                memcpy(sums, s->output.bias, (size_t)channels * sizeof *sums);
                for (int32_t i = 0; i < window->height; i++) {
                    const int32_t in_y = out_y * window->stride_y - window->pad_top + i * window->dilation_y;
                    for (int32_t j = 0; j < window->width; j++, tap += channels) {
                        const int32_t in_x = out_x * window->stride_x - window->pad_left + j * window->dilation_x;
                        if (in_y < 0 || in_y >= window->in_height || in_x < 0 || in_x >= window->in_width) {
                            continue;
                        }
                        const ${c_type} *row = s->kept > 0 && in_y <= out_y ? kept_rows + (in_y % s->kept) * row_size
                                                                          : x + in_y * row_size;
                        const ${c_type} *pixel = row + in_x * window->in_channels;
                        if (s->multiplier == 1) {
                            for (int32_t c = 0; c < channels; c++) {
                                sums[c] += (pixel[c] - s->x_zero_point) * (tap[c] - s->w_zero_point);
                            }
                        } else {
                            for (int32_t c = 0; c < window->in_channels; c++) {
                                for (int32_t m = c * s->multiplier; m < (c + 1) * s->multiplier; m++) {
                                    sums[m] += (pixel[c] - s->x_zero_point) * (tap[m] - s->w_zero_point);
                                }
                            }
                        }
                    }
                }
                for (int32_t c = 0; c < channels; c++) {
                    y[c] = (${c_type})requantize_$rounding(sums[c], &s->output, c);
                }
                y += channels;
            }
        }
        x += window->in_height * window->in_width * window->in_channels;
    }
}
