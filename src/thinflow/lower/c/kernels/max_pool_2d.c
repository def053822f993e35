#include "window.c"

typedef struct {
    window_t window;
    ${c_type} min, max;
} ${name}_t;

/* The largest under each window; what lies outside counts for nothing. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    const window_t *w = &s->window;
    const int32_t channels = w->in_channels;
    for (int32_t b = 0; b < w->batches; b++) {
        for (int32_t out_y = 0; out_y < w->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < w->out_width; out_x++) {
                for (int32_t c = 0; c < channels; c++) {
                    y[c] = s->min;
                }
                for (int32_t i = 0; i < w->height; i++) {
                    for (int32_t j = 0; j < w->width; j++) {
                        const int32_t in_y = out_y * w->stride_y - w->pad_top + i;
                        const int32_t in_x = out_x * w->stride_x - w->pad_left + j;
                        if (in_y < 0 || in_y >= w->in_height || in_x < 0 || in_x >= w->in_width) {
                            continue;
                        }
                        const ${c_type} *pixel = x + (in_y * w->in_width + in_x) * channels;
                        for (int32_t c = 0; c < channels; c++) {
                            y[c] = y[c] < pixel[c] ? pixel[c] : y[c];
                        }
                    }
                }
                for (int32_t c = 0; c < channels; c++) {
                    y[c] = y[c] > s->max ? s->max : y[c];
                }
                y += channels;
            }
        }
        x += w->in_height * w->in_width * channels;
    }
}
