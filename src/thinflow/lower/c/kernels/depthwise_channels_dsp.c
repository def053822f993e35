#include "clamp_dsp.c"
#include "requantize_dsp.c"

typedef struct {
    const int32_t *factors; /* of each channel a multiplier, a summand, a shift and 256 times the bias */
    int32_t channels, height, width;
    int32_t tap_row, tap_step;      /* of the input: from a row of taps, and a tap, to the next */
    int32_t rows, row_step;         /* of the output; and of the input, from a row of windows to the next */
    int32_t columns, column_step;
    int32_t min, max;
} ${name}_t;

#define CHANNEL_up(n)                                                        \
    "ldrd %[m], %[a], [%[f], #16*" n "]\n ldr %[s], [%[f], #16*" n "+8]\n" \
    REQUANTIZE_up("%[s" n "]", "%[m]", "%[a]", "%[s]", "%[h]") "strb %[s" n "], [%[to], #" n "]\n"
#define CHANNEL_away(n)                                                      \
    "ldrd %[m], %[a], [%[f], #16*" n "]\n ldr %[s], [%[f], #16*" n "+8]\n" \
    REQUANTIZE_away("%[s" n "]", "%[m]", "%[a]", "%[s]", "%[h]") "strb %[s" n "], [%[to], #" n "]\n"

/* Four channels at a time, all windows inside the picture: a plane is not worth setting up where outputs are few.
   Weights are [channels / 4, taps, 4], those of a four in the order 1 0 3 2: either the byte of the picture or that of the
   weights is in the upper half of its halfword, so that sums are those times 256. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, const ${name}_t *s)
{
    const int32_t channels = s->channels, step = s->tap_step, area = s->height * s->width;
    for (int32_t c = 0; c < channels; c += 4, w += 4 * area) {
        const int32_t *const f = s->factors + 4 * c;
        int8_t *to = y + c;
        for (int32_t i = 0; i < s->rows; i++) {
            const int8_t *first = x + c + i * s->row_step;
            for (int32_t j = 0; j < s->columns; j++, first += s->column_step, to += channels) {
                int32_t s0 = f[3], s1 = f[7], s2 = f[11], s3 = f[15];
                const int8_t *row = first, *tap = w;
                for (int32_t k = 0; k < s->height; k++, row += s->tap_row) {
                    const int8_t *at = row, *const end = tap + 4 * s->width;
                    uint32_t x0, w0, x1, w1;
                    __asm__ volatile("1:\n"
                            "ldr %[x0], [%[at]]\n"
                            "ldr %[w0], [%[tap]], #4\n"
                            "add %[at], %[step]\n"
                            "and %[x1], %[x0], #0xff00ff00\n"
                            "sxtb16 %[x0], %[x0]\n"
                            "and %[w1], %[w0], #0xff00ff00\n"
                            "sxtb16 %[w0], %[w0]\n"
                            "smlabb %[s0], %[x0], %[w1], %[s0]\n"
                            "smlabb %[s1], %[x1], %[w0], %[s1]\n"
                            "smlatt %[s2], %[x0], %[w1], %[s2]\n"
                            "smlatt %[s3], %[x1], %[w0], %[s3]\n"
                            "cmp %[tap], %[end]\n"
                            "bne 1b\n"
                            : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [at] "+r"(at), [tap] "+r"(tap),
                              [x0] "=&r"(x0), [w0] "=&r"(w0), [x1] "=&r"(x1), [w1] "=&r"(w1)
                            : [end] "r"(end), [step] "r"(step)
                            : "cc", "memory");
                }
                int32_t multiplier, summand, shift, half;
                __asm__ volatile("mov %[h], #64\n" CHANNEL_$halves("0") CHANNEL_$halves("1") CHANNEL_$halves("2") CHANNEL_$halves("3")
                        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [m] "=&r"(multiplier),
                          [a] "=&r"(summand), [s] "=&r"(shift), [h] "=&r"(half)
                        : [f] "r"(f), [to] "r"(to)
                        : "memory");
            }
        }
    }
    if (s->min > -128 || s->max < 127) {
        clamp_dsp(y, s->rows * s->columns * channels, s->min, s->max);
    }
}
