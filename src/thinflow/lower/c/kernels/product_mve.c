typedef struct {
    const int32_t *bias;
    int32_t bytes;    /* of a pixel, a multiple of 16 */
    int32_t sums[8];
} ${name}_t;

/* Sums of two pixels times four filters, whose weights are interleaved by sixteen. VMLADAVA takes even registers only:
   all eight hold sums. */
__attribute__((naked)) static void
$name(const int8_t *x0 __attribute__((unused)), const int8_t *x1 __attribute__((unused)),
      const int8_t *w __attribute__((unused)), ${name}_t *s __attribute__((unused)))
{
    __asm__ volatile(
        "push {r4-r11, lr}\n"
        "ldrd r9, r7, [r3], #8\n"
        "mov r11, r3\n"
        "mov r5, r2\n"
        "mov r3, r1\n"
        "mov r1, r0\n"
        "add r7, r1\n"
        "ldm r9, {r0, r2, r4, r6}\n"
        "mov r8, r0\n mov r10, r2\n mov r12, r4\n mov lr, r6\n"
        "1:\n"
        "vldrb.8 q0, [r1], #16\n"
        "vldrb.8 q1, [r3], #16\n"
        "vldrb.8 q2, [r5], #16\n"
        "vmladava.s8 r0, q2, q0\n"
        "vldrb.8 q3, [r5], #16\n"
        "vmladava.s8 r8, q2, q1\n"
        "vmladava.s8 r2, q3, q0\n"
        "vldrb.8 q2, [r5], #16\n"
        "vmladava.s8 r10, q3, q1\n"
        "vmladava.s8 r4, q2, q0\n"
        "vldrb.8 q3, [r5], #16\n"
        "vmladava.s8 r12, q2, q1\n"
        "vmladava.s8 r6, q3, q0\n"
        "cmp r1, r7\n"
        "vmladava.s8 lr, q3, q1\n"
        "bne 1b\n"
        "stm r11, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
        "pop {r4-r11, pc}\n");
}
