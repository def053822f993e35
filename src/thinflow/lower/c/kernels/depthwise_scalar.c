#include "requantize_high.c"
#include "high_$halves.c"

typedef struct {
    int32_t batches, rows, columns;             /* of the output */
    int32_t in_rows, in_step, in_row, in_bytes; /* of the input: rows, bytes to the next, that windows reach, and of all */
    int32_t stride_y, pad_top;
    int32_t border, pitch, bytes;               /* of the panel: before the picture, of a row, and all; 0 if there is none */
    int32_t outside;                            /* the input's zero point */
    requantize_high_t output;
} ${name}_t;

/* Rows of the picture with their border in a panel, as many as a window reaches; each channel by itself, $outputs pixels of
   $step channels at a time, so that what windows share is read once. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int8_t *panel, const ${name}_t *s)
{
    int8_t *const edge = panel + $blocks * s->pitch;
    memset(panel, s->outside, (size_t)s->bytes);
    for (int32_t b = 0; b < s->batches; b++, x += s->in_bytes) {
        int32_t next = 0;
        for (int32_t i = 0; i < s->rows; i++, y += s->columns * $step) {
            const int32_t top = i * s->stride_y - s->pad_top;
            const int8_t *rows[$blocks];
            for (; s->bytes > 0 && next < s->in_rows && next < top + $blocks; next++) {
                memcpy(panel + next % $blocks * s->pitch + s->border, x + next * s->in_step, (size_t)s->in_row);
            }
            for (int32_t r = 0; r < $blocks; r++) {
                const bool is_in = top + r >= 0 && top + r < s->in_rows;
                rows[r] = s->bytes == 0 ? x + (top + r) * s->in_step : is_in ? panel + (top + r) % $blocks * s->pitch : edge;
            }
            const int8_t *filter = w;
            const int32_t *factor = s->output.factors;
            for (int32_t c = 0; c < $step; c++, filter += $blocks * $rest, factor += s->output.step) {
                for (int32_t j = 0; j < s->columns; j += $outputs) {
                    /* The last ones begin earlier, and are computed twice in part. */
                    const int32_t first = j + $outputs > s->columns ? s->columns - $outputs : j;
                    const int32_t at = first * $stride * $step + c;
                    int32_t sums[$outputs];
#pragma GCC unroll 8
                    for (int32_t p = 0; p < $outputs; p++) {
                        sums[p] = s->output.bias[c];
                    }
#pragma GCC unroll 16
                    for (int32_t r = 0; r < $blocks; r++) {
                        const int8_t *row = rows[r] + at;
                        int32_t taps[$rest];
#pragma GCC unroll 32
                        for (int32_t t = 0; t < $rest; t++) {
                            taps[t] = filter[r * $rest + t];
                        }
#pragma GCC unroll 64
                        for (int32_t u = 0; u < ($outputs - 1) * $stride + $rest; u++) {
                            const int32_t element = row[u * $step];
#pragma GCC unroll 8
                            for (int32_t p = 0; p < $outputs; p++) {
                                const int32_t t = u - p * $stride;
                                if (t >= 0 && t < $rest) {
                                    sums[p] += element * taps[t];
                                    __asm__ volatile("" : "+r"(sums[p]));
                                }
                            }
                        }
                    }
#pragma GCC unroll 8
                    for (int32_t p = 0; p < $outputs; p++) {
                        y[(first + p) * $step + c] = (int8_t)high_$halves(sums[p], factor, s->output.min, s->output.max);
                    }
                }
            }
        }
    }
}
