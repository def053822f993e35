#include "clamp_dsp.c"
#include "requantize_dsp.c"
#include "widen_dsp.c"

typedef struct {
    const int32_t *column_end, *factors, *factors_end;
    int32_t skipped; /* bytes of the loop, that its last pass ends with the column */
} ${name}_run_t;

/* One row times filters by fours; see `product_dsp`. `factors` are four biases times 256, and four multipliers, summands and
   shifts. */
__attribute__((naked)) static void
${name}_run(const int8_t *w __attribute__((unused)), const int32_t *column __attribute__((unused)),
            int8_t *y __attribute__((unused)), const ${name}_run_t *s __attribute__((unused)))
{
    __asm__ volatile(
        "push {r4-r11, lr}\n"
        "sub sp, #28\n"
        "ldm r3, {r4-r7}\n"
        "adr r8, 1f\n"
        "add r8, r7\n"
        "orr r8, #1\n"
        "mov r12, r4\n"
        "mov lr, r5\n"
        /* 0: the column, 4: into the loop, 8: factors' end, 12: y */
        "strd r1, r8, [sp]\n"
        "strd r6, r2, [sp, #8]\n"
        "0:\n"
        "ldm lr!, {r2-r5}\n"
        "ldrd r1, r6, [sp]\n"
        "bx r6\n"
        ".balign 4\n"
        "1:\n"
        ".rept 4\n"
        "ldm.w r0!, {r6-r9}\n"
        "ldrd r10, r11, [r1], #8\n"
        "smlad r2, r6, r10, r2\n"
        "smlad r3, r7, r10, r3\n"
        "smlad r4, r8, r10, r4\n"
        "smlad r5, r9, r10, r5\n"
        "sxtb16 r6, r6\n"
        "sxtb16 r7, r7\n"
        "sxtb16 r8, r8\n"
        "sxtb16 r9, r9\n"
        "smlad r2, r6, r11, r2\n"
        "smlad r3, r7, r11, r3\n"
        "smlad r4, r8, r11, r4\n"
        "smlad r5, r9, r11, r5\n"
        ".endr\n"
        "cmp r1, r12\n"
        "bne 1b\n"
        "mov r9, #64\n"
        "ldm lr!, {r6-r8}\n"
        REQUANTIZE_$halves("r2", "r6", "r7", "r8", "r9")
        "ldm lr!, {r6-r8}\n"
        REQUANTIZE_$halves("r3", "r6", "r7", "r8", "r9")
        "ldm lr!, {r6-r8}\n"
        REQUANTIZE_$halves("r4", "r6", "r7", "r8", "r9")
        "ldm lr!, {r6-r8}\n"
        REQUANTIZE_$halves("r5", "r6", "r7", "r8", "r9")
        "bfi r2, r3, #8, #8\n"
        "bfi r2, r4, #16, #8\n"
        "bfi r2, r5, #24, #8\n"
        "ldrd r10, r11, [sp, #8]\n"
        "str r2, [r11], #4\n"
        "str r11, [sp, #12]\n"
        "cmp lr, r10\n"
        "bne 0b\n"
        "add sp, #28\n"
        "pop {r4-r11, pc}\n");
}

typedef struct {
    int32_t rows, depth, filters;
    const int32_t *factors;
    int32_t skipped;
    int32_t min, max;
} ${name}_t;

static void $name(const int8_t *x, int8_t *y, const int8_t *w, int32_t *column, const ${name}_t *s)
{
    const int32_t fours = s->filters >> 2, rest = s->filters & 3;
    ${name}_run_t run = {column, s->factors, s->factors + 16 * fours, s->skipped};
    ${name}_run_t last = {column, run.factors_end, run.factors_end + (rest > 0 ? 16 : 0), s->skipped};
    for (int32_t row = 0; row < s->rows; row++, x += s->depth, y += s->filters) {
        run.column_end = last.column_end = widen_dsp(x, s->depth, column, 1);
        if (fours > 0) {
            ${name}_run(w, column, y, &run);
        }
        if (rest > 0) {
            int32_t spare;
            ${name}_run(w + 4 * fours * s->depth, column, (int8_t *)&spare, &last);
            memcpy(y + 4 * fours, &spare, (size_t)rest);
        }
        if (s->min > -128 || s->max < 127) {
            clamp_dsp(y, s->filters, s->min, s->max);
        }
    }
}
