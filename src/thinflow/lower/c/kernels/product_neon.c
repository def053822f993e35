#include "outputs_$halves.c"
#include "windows_lanes.c"
#include "four_$taps.c"

/* The assembly is longer than a text in C99 has to be able to be; whoever takes the one takes the other. */
#ifdef __aarch64__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
/* $rest windows, $step elements apart, times $blocks times eight filters. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int32_t first, const product_lanes_t *s)
{
    int32x4_t sums[$rest][2 * $blocks];
#ifdef __aarch64__
    static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
    void *end = sums;
    int32_t lines = s->lines;
    __asm__ volatile(
        "ldr q31, [%[order]]\n"
        $loop
        : [x] "+&r"(x), [w] "+&r"(w), [lines] "+&r"(lines), [sums] "+&r"(end)
        : [pieces] "r"(s->pieces), [groups] "r"(s->groups), [line_step] "r"((int64_t)s->line_step),
          [piece_step] "r"((int64_t)s->piece_step), [step] "r"((int64_t)$step), [bias] "r"(s->output.bias + first),
          [order] "r"(order)
        : "memory", "cc", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x19", "x20",
          "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
          "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#else
    for (int32_t m = 0; m < $rest; m++) {
        for (int32_t n = 0; n < 2 * $blocks; n++) {
            sums[m][n] = vld1q_s32(s->output.bias + first + n * 4);
        }
    }
    for (int32_t i = 0; i < s->lines; i++) {
        for (int32_t j = 0; j < s->pieces; j++) {
            const int8_t *at = x + i * s->line_step + j * s->piece_step;
            for (int32_t k = 0; k < s->groups; k++, at += 4, w += $blocks * 32) {
#pragma GCC unroll 16
                for (int32_t m = 0; m < $rest; m++) {
#pragma GCC unroll 16
                    for (int32_t n = 0; n < 2 * $blocks; n++) {
                        sums[m][n] = four_$taps(sums[m][n], vld1q_s8(w + n * 16), at + m * $step);
                    }
                }
            }
        }
    }
#endif
#pragma GCC unroll 16
    for (int32_t n = 0; n < $blocks; n++) {
        const int32_t from = first + n * LANES;
        if (from < s->filters) {
#pragma GCC unroll 16
            for (int32_t m = 0; m < $rest; m++) {
                const lanes_t all = {sums[m][2 * n], sums[m][2 * n + 1]};
                lanes_write(y + m * s->filters + from, outputs_$halves(all, &s->output, from), &s->output, s->filters - from);
            }
        }
    }
}
#ifdef __aarch64__
#pragma GCC diagnostic pop
#endif
