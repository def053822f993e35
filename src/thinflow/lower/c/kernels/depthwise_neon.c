#include "outputs_$halves.c"

typedef struct {
    int32_t batches, rows, columns, channels; /* of the output; a column may be several pixels side by side */
    int32_t in_rows, in_row, in_step, in_bytes; /* of the input: rows, bytes of them that windows reach, and to the next */
    int32_t stride_y, dilation_y, pad_top;
    int32_t border, pitch, kept;              /* of the panel: before the picture, from row to row, and rows it has */
    int32_t column_step, tap_step;            /* along a row, from an output and a tap to the next */
    int32_t outside;
    output_t output;
} ${name}_t;

/* Rows of the picture with their border in a panel, as many as a window reaches; eight channels at a time, and products
   of two taps summed in 16 bits. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int8_t *panel, const ${name}_t *s)
{
    enum { TAPS = $blocks * $rest };
    int8_t *const edge = panel + s->kept * s->pitch;
    memset(panel, s->outside, (size_t)((s->kept + 1) * s->pitch));
    for (int32_t b = 0; b < s->batches; b++, x += s->in_bytes) {
        int32_t next = 0;
        for (int32_t i = 0; i < s->rows; i++, y += s->columns * s->channels) {
            const int32_t top = i * s->stride_y - s->pad_top;
            const int8_t *rows[$blocks];
            for (; next < s->in_rows && next <= top + ($blocks - 1) * s->dilation_y; next++) {
                memcpy(panel + next % s->kept * s->pitch + s->border, x + next * s->in_step, (size_t)s->in_row);
            }
            for (int32_t r = 0; r < $blocks; r++) {
                const int32_t in_y = top + r * s->dilation_y;
                rows[r] = in_y >= 0 && in_y < s->in_rows ? panel + in_y % s->kept * s->pitch : edge;
            }
            for (int32_t c = 0; c < s->channels; c += LANES) {
                const int8_t *const filter = w + c * TAPS;
                const lanes_t bias = lanes_at(s->output.bias + c);
                int8x8_t taps[TAPS];
#pragma GCC unroll 32
                for (int32_t t = 0; t < TAPS; t++) {
                    taps[t] = vld1_s8(filter + t * LANES);
                }
                int32_t at = c;
                for (int32_t j = 0; j < s->columns; j++, at += s->column_step) {
                    lanes_t sums = bias;
#pragma GCC unroll 32
                    for (int32_t t = 0; t + 1 < TAPS; t += 2) {
                        const int8_t *const one = rows[t / $rest] + at + t % $rest * s->tap_step;
                        const int8_t *const other = rows[(t + 1) / $rest] + at + (t + 1) % $rest * s->tap_step;
                        const int16x8_t two = vmlal_s8(vmull_s8(taps[t], vld1_s8(one)), taps[t + 1], vld1_s8(other));
                        sums.low = vaddw_s16(sums.low, vget_low_s16(two));
                        sums.high = lanes_widened(sums.high, two);
                    }
#if $blocks * $rest % 2
                    const int8_t *const one = rows[$blocks - 1] + at + ($rest - 1) * s->tap_step;
                    const int16x8_t last = vmull_s8(taps[TAPS - 1], vld1_s8(one));
                    sums.low = vaddw_s16(sums.low, vget_low_s16(last));
                    sums.high = lanes_widened(sums.high, last);
#endif
                    lanes_write(y + j * s->channels + c, outputs_$halves(sums, &s->output, c), &s->output, s->channels - c);
                }
            }
        }
    }
}
