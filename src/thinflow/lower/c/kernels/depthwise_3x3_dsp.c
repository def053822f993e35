#include "clamp_dsp.c"
#include "requantize_dsp.c"

typedef struct {
    uint32_t taps[6];          /* of each row the weights (w0, w1) and (w1, w2), times 256 */
    int32_t multiplier, summand, shift, bias;
    int32_t rows;              /* of the output */
    int8_t *y;
    int32_t y_step;            /* from row to row of the output */
    int32_t next_row;          /* from the end of the last block to the next row of the plane, bytes */
    int32_t block_bytes;       /* of the plane, that blocks of four outputs take in a row */
} ${name}_channel_t;

/* Outputs r0 to r3, as many as `n`, of three taps each: `p` holds (w0, w1), `q` (w1, w2), lr points at a row of the plane. */
#define DEPTHWISE_ROW_1(n, at, p, q, s0, s1, s2, s3)                                                    \
    "ldrd r10, r11, [lr, #" at "]\n smlad r0, r10, " p ", " s0 "\n smlabt r0, r11, " q ", r0\n"         \
    ".if " n " > 1\n smlatb r1, r10, " p ", " s1 "\n smlad r1, r11, " q ", r1\n .endif\n"               \
    ".if " n " > 2\n ldr r12, [lr, #" at " + 8]\n"                                                      \
    "smlad r2, r11, " p ", " s2 "\n smlabt r2, r12, " q ", r2\n .endif\n"                               \
    ".if " n " > 3\n smlatb r3, r11, " p ", " s3 "\n smlad r3, r12, " q ", r3\n .endif\n"
#define DEPTHWISE_ROW_2(n, at, p, q, s0, s1, s2, s3)                                                    \
    "ldrd r10, r11, [lr, #" at "]\n smlad r0, r10, " p ", " s0 "\n smlabt r0, r11, " q ", r0\n"         \
    ".if " n " > 1\n smlad r1, r11, " p ", " s1 "\n ldrd r12, r10, [lr, #" at " + 8]\n"                 \
    "smlabt r1, r12, " q ", r1\n .endif\n"                                                              \
    ".if " n " > 2\n smlad r2, r12, " p ", " s2 "\n smlabt r2, r10, " q ", r2\n .endif\n"               \
    ".if " n " > 3\n smlad r3, r10, " p ", " s3 "\n ldr r11, [lr, #" at " + 16]\n"                      \
    "smlabt r3, r11, " q ", r3\n .endif\n"
/* All of it for `n` outputs, `pitch` bytes from row to row of the plane, `step` from output to output. */
#define DEPTHWISE_BLOCK(stride, halves, n, pitch, step)                                                    \
    "ldr r3, [sp, #12]\n" DEPTHWISE_ROW_##stride(n, "0", "r4", "r5", "r3", "r3", "r3", "r3")               \
    DEPTHWISE_ROW_##stride(n, pitch, "r6", "r7", "r0", "r1", "r2", "r3")                                    \
    DEPTHWISE_ROW_##stride(n, "2*" pitch, "r8", "r9", "r0", "r1", "r2", "r3")                               \
    DEPTHWISE_BEGIN_##halves "ldm sp, {r10-r12}\n" REQUANTIZE_##halves("r0", "r10", "r11", "r12", "lr")     \
    ".if " n " > 1\n" REQUANTIZE_##halves("r1", "r10", "r11", "r12", "lr") ".endif\n"                       \
    ".if " n " > 2\n" REQUANTIZE_##halves("r2", "r10", "r11", "r12", "lr") ".endif\n"                       \
    ".if " n " > 3\n" REQUANTIZE_##halves("r3", "r10", "r11", "r12", "lr") ".endif\n"                       \
    DEPTHWISE_END_##halves "ldr r10, [sp, #20]\n strb r0, [r10]\n"                                          \
    ".if " n " > 1\n strb r1, [r10, #" step "]\n .endif\n"                                                   \
    ".if " n " > 2\n strb r2, [r10, #2*" step "]\n .endif\n"                                                 \
    ".if " n " > 3\n strb r3, [r10, #3*" step "]\n .endif\n"
#define DEPTHWISE_BEGIN_up
#define DEPTHWISE_END_up
#define DEPTHWISE_BEGIN_away "str lr, [sp, #36]\n mov lr, #64\n"
#define DEPTHWISE_END_away "ldr lr, [sp, #36]\n"

/* One channel. The plane has a border, so that no window leaves it. */
__attribute__((naked)) static void
${name}_channel(const int16_t *plane __attribute__((unused)), const ${name}_channel_t *s __attribute__((unused)))
{
    __asm__ volatile(
        "push {r4-r11, lr}\n"
        "sub sp, #52\n"
        "mov lr, r0\n"
        "ldm r1!, {r4-r9}\n"
        /* 0: multiplier, summand, shift, 12: bias, 16: rows, 20: y, 24: y's step, 28: to the next row, 32: bytes of blocks,
           36: to spare, 40: y of the row, 44: end of the blocks */
        "ldm r1!, {r0, r2, r3, r10, r11, r12}\n"
        "stm sp, {r0, r2, r3, r10, r11, r12}\n"
        "str r12, [sp, #40]\n"
        "ldm r1, {r0, r2, r3}\n"
        "strd r0, r2, [sp, #24]\n"
        "str r3, [sp, #32]\n"
        "0:\n"
        "ldr r10, [sp, #40]\n"
        "ldr r11, [sp, #24]\n"
        "str r10, [sp, #20]\n"
        "add r10, r11\n"
        "str r10, [sp, #40]\n"
        ".if $blocks\n"
        "ldr r11, [sp, #32]\n"
        "add r11, lr\n"
        "str r11, [sp, #44]\n"
        "1:\n"
        DEPTHWISE_BLOCK($stride, $halves, "4", "$pitch", "$step")
        "add r10, #4*$step\n"
        "str r10, [sp, #20]\n"
        "ldr r11, [sp, #44]\n"
        "add lr, #8*$stride\n"
        "cmp lr, r11\n"
        "bne 1b\n"
        ".endif\n"
        ".if $rest\n"
        DEPTHWISE_BLOCK($stride, $halves, "$rest", "$pitch", "$step")
        ".endif\n"
        "ldrd r11, r12, [sp, #28]\n"
        "ldr r10, [sp, #16]\n"
        "add lr, r11\n"
        "subs r10, #1\n"
        "str r10, [sp, #16]\n"
        "bne 0b\n"
        "add sp, #52\n"
        "pop {r4-r11, pc}\n");
}

typedef struct {
    const int32_t *factors;      /* of each channel a multiplier, a summand, a shift and 256 times the bias */
    int32_t batches, channels;
    int32_t rows, columns;       /* of the picture, that windows reach */
    int32_t x_row, x_bytes;      /* from row to row, and of a picture */
    int32_t border, plane_bytes; /* halfwords before the picture in the plane, and all of it */
    int32_t out_rows, y_row, y_bytes;
    int32_t outside;             /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* Channel by channel in a plane of halfwords with a border: no window has to look where it is. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int16_t *plane, const ${name}_t *s)
{
    ${name}_channel_t channel;
    channel.rows = s->out_rows;
    channel.y_step = s->y_row;
    channel.block_bytes = 8 * $stride * $blocks;
    channel.next_row = $stride * $pitch - channel.block_bytes;
    for (int32_t i = 0; i < s->plane_bytes / 2; i++) {
        plane[i] = (int16_t)s->outside;
    }
    for (int32_t b = 0; b < s->batches; b++) {
        const int8_t *taps = w;
        for (int32_t c = 0; c < s->channels; c++) {
            const int8_t *row = x + c;
            int16_t *to = plane + s->border;
            for (int32_t i = 0; i < s->rows; i++, row += s->x_row, to += $pitch / 2 - s->columns) {
                const int8_t *from = row;
                int32_t left = s->columns;
                for (; left >= 4; left -= 4, from += 4 * $step, to += 4) {
                    to[0] = from[0];
                    to[1] = from[$step];
                    to[2] = from[2 * $step];
                    to[3] = from[3 * $step];
                }
                for (; left > 0; left--, from += $step) {
                    *to++ = *from;
                }
            }
            for (int32_t i = 0; i < 6; i += 2, taps += 3) {
                channel.taps[i] = (uint32_t)(uint8_t)taps[0] << 8 | (uint32_t)(uint8_t)taps[1] << 24;
                channel.taps[i + 1] = (uint32_t)(uint8_t)taps[1] << 8 | (uint32_t)(uint8_t)taps[2] << 24;
            }
            memcpy(&channel.multiplier, s->factors + 4 * c, 4 * sizeof(int32_t));
            channel.y = y + c;
            ${name}_channel(plane, &channel);
        }
        if (s->min > -128 || s->max < 127) {
            clamp_dsp(y, s->y_bytes, s->min, s->max);
        }
        x += s->x_bytes;
        y += s->y_bytes;
    }
}
