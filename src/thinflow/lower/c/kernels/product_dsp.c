#include "requantize_dsp.c"

typedef struct {
    int32_t column_bytes;      /* of four pixels */
    int32_t y_step;            /* from pixel to pixel */
    const int32_t *factors, *factors_end;
    int32_t skipped;           /* bytes of the loop, that its last pass ends with the columns */
} ${name}_t;

/* Four pixels times pairs of filters, requantized. Instructions count here, and registers: eight sums, two words of
   pixels, two of weights and two pointers are all there are.

   Weights are halfwords 256 * w1 + w0, so that one SMLAD with (x1 - 127) and one of w0 with 256 * x0 - (x1 - 127) give
   256 * (w0 * x0 + w1 * (x1 - 127)), and only w0 has to be taken out of the halfword. What 127 adds is in the bias.
   `factors` are, for each pair of filters: two biases times 256, and for each a multiplier, a summand and a shift. */
__attribute__((naked)) static void
$name(const int8_t *w __attribute__((unused)), const int32_t *columns __attribute__((unused)),
      int8_t *y __attribute__((unused)), const ${name}_t *sizes __attribute__((unused)))
{
    __asm__ volatile(
        "push {r4-r11, lr}\n"
        "sub sp, #36\n"
        "ldm r3, {r4-r8}\n"
        "add r4, r1\n"
        "adr r9, 1f\n"
        "add r9, r8\n"
        "orr r9, #1\n"
        /* 0: columns, 4: their end, 8: into the loop, 12: factors, 16: their end, 20: y, 24: bytes from pixel to pixel */
        "strd r1, r4, [sp]\n"
        "strd r9, r6, [sp, #8]\n"
        "strd r7, r2, [sp, #16]\n"
        "str r5, [sp, #24]\n"
        "0:\n"
        "ldr r10, [sp, #12]\n"
        "ldm r10!, {r2, r6}\n"
        "str r10, [sp, #12]\n"
        "ldrd r1, r11, [sp]\n"
        "ldr r11, [sp, #8]\n"
        "mov r3, r2\n mov r4, r2\n mov r5, r2\n"
        "mov r7, r6\n mov r8, r6\n mov r9, r6\n"
        "bx r11\n"
        ".balign 4\n"
        "1:\n"
        ".rept 4\n"
        "ldrd r12, lr, [r0], #8\n"
        "ldrd r10, r11, [r1], #8\n"
        "smlad r2, r12, r10, r2\n"
        "smlad r6, lr, r10, r6\n"
        "smlad r3, r12, r11, r3\n"
        "smlad r7, lr, r11, r7\n"
        "ldrd r10, r11, [r1], #8\n"
        "smlad r4, r12, r10, r4\n"
        "smlad r8, lr, r10, r8\n"
        "smlad r5, r12, r11, r5\n"
        "smlad r9, lr, r11, r9\n"
        "sxtb16 r12, r12\n"
        "sxtb16 lr, lr\n"
        "ldrd r10, r11, [r1], #8\n"
        "smlad r2, r12, r10, r2\n"
        "smlad r6, lr, r10, r6\n"
        "smlad r3, r12, r11, r3\n"
        "smlad r7, lr, r11, r7\n"
        "ldrd r10, r11, [r1], #8\n"
        "smlad r4, r12, r10, r4\n"
        "smlad r8, lr, r10, r8\n"
        "smlad r5, r12, r11, r5\n"
        "smlad r9, lr, r11, r9\n"
        ".endr\n"
        "ldr r10, [sp, #4]\n"
        "cmp r1, r10\n"
        "bne 1b\n"
        "ldr lr, [sp, #12]\n"
        "ldm lr!, {r1, r10, r11}\n"
        "mov r12, #64\n"
        REQUANTIZE_$halves("r2", "r1", "r10", "r11", "r12") REQUANTIZE_$halves("r3", "r1", "r10", "r11", "r12")
        REQUANTIZE_$halves("r4", "r1", "r10", "r11", "r12") REQUANTIZE_$halves("r5", "r1", "r10", "r11", "r12")
        "ldm lr!, {r1, r10, r11}\n"
        REQUANTIZE_$halves("r6", "r1", "r10", "r11", "r12") REQUANTIZE_$halves("r7", "r1", "r10", "r11", "r12")
        REQUANTIZE_$halves("r8", "r1", "r10", "r11", "r12") REQUANTIZE_$halves("r9", "r1", "r10", "r11", "r12")
        "ldrd r11, r12, [sp, #16]\n"
        "str lr, [sp, #12]\n"
        "ldr r10, [sp, #24]\n"
        "cmp lr, r11\n"
        "add r11, r12, #2\n"
        "str r11, [sp, #20]\n"
        "bfi r2, r6, #8, #8\n"
        "bfi r3, r7, #8, #8\n"
        "bfi r4, r8, #8, #8\n"
        "bfi r5, r9, #8, #8\n"
        "strh r2, [r12]\n"
        "strh r3, [r12, r10]\n"
        "strh r4, [r12, r10, lsl #1]\n"
        "add r12, r10\n"
        "strh r5, [r12, r10, lsl #1]\n"
        "bne 0b\n"
        "add sp, #36\n"
        "pop {r4-r11, pc}\n");
}
