#include "outputs_$halves.c"

typedef struct {
    int32_t batches, rows, columns, channels; /* of the output; a column may be several pixels side by side */
    int32_t in_rows, in_row, in_step, in_bytes; /* of the input: rows, bytes of them that windows reach, and to the next */
    int32_t stride_y, dilation_y, pad_top, height;
    int32_t border, pitch;                    /* of a row of the panel: before the picture, and all */
    int32_t column_step, tap_step;            /* along it, from an output and a tap to the next */
    int32_t outside;
    output_t output;
} ${name}_t;

/* Some rows of the picture in a panel, columns together, so that products of several taps are summed at once. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, panel_t *panel, int8_t *edge, const ${name}_t *s)
{
    const int32_t size = s->pitch * GROUP, padded = (s->channels + LANES - 1) / LANES * LANES;
    const lanes_t least = lanes_all(s->output.min), most = lanes_all(s->output.max);
    memset(edge, s->outside, (size_t)s->in_row);
    panel_fill(panel, s->outside, $blocks * size);
    for (int32_t b = 0; b < s->batches; b++, x += s->in_bytes) {
        for (int32_t i = 0; i < s->rows; i++, y += s->columns * s->channels) {
            for (int32_t g = 0; g < $blocks; g++) {
                const int8_t *rows[GROUP];
                for (int32_t r = 0; r < GROUP; r++) {
                    const int32_t in_y = i * s->stride_y - s->pad_top + (g * GROUP + r) * s->dilation_y;
                    const bool is_in = in_y >= 0 && in_y < s->in_rows && g * GROUP + r < s->height;
                    rows[r] = is_in ? x + in_y * s->in_step : edge;
                }
                panel_columns(panel + g * size + s->border * GROUP, rows, s->in_row);
            }
            for (int32_t c = 0; c < s->channels; c += LANES) {
                const some_t some = lanes_some(s->channels - c);
                const panel_t *at = panel + c * GROUP;
                const lanes_t bias = lanes_at(s->output.bias + c);
                lanes_t taps[$blocks * $rest];
#pragma GCC unroll 32
                for (int32_t t = 0; t < $blocks * $rest; t++) {
                    taps[t] = lanes_weights(w + (t * padded + c) * GROUP);
                }
                for (int32_t j = 0; j < s->columns; j++, at += s->column_step * GROUP) {
                    lanes_t sums = bias;
#pragma GCC unroll 32
                    for (int32_t t = 0; t < $blocks * $rest; t++) {
                        const panel_t *const tap = at + t / $rest * size + t % $rest * s->tap_step * GROUP;
                        sums = lanes_products(sums, taps[t], lanes_at(tap));
                    }
                    sums = lanes_held(outputs_$halves(sums, &s->output, c), least, most);
                    lanes_put(y + j * s->channels + c, sums, some);
                }
            }
        }
    }
}
