#include "clamp_dsp.c"
#include "requantize_dsp.c"

typedef struct {
    const int32_t *factors;      /* of each channel a multiplier, a summand, a shift and 256 times the bias */
    int32_t channels;
    int32_t height, width;       /* of the window */
    int32_t stride_y;
    int32_t rows, columns;       /* of the picture, that windows reach */
    int32_t x_row;
    int32_t border, pitch, plane_size; /* of the plane: before the picture, from row to row, and all; halfwords */
    int32_t out_rows, out_columns, y_row, y_step, y_bytes;
    int32_t outside;             /* the input's zero point */
    int32_t min, max;
} ${name}_t;

static int32_t ${name}_pair(const int16_t *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return pair;
}

static inline int8_t ${name}_byte(int32_t sum, const int32_t *f)
{
    __asm__(REQUANTIZE_$halves("%0", "%1", "%2", "%3", "%4")
            : "+r"(sum) : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(64));
    return (int8_t)sum;
}

/* Channel by channel in a plane of halfwords with a border; four neighbours and two taps at a time.
   taps: 256 times the weights of a channel, [height, width to an even number]; the plane follows. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int16_t *taps, const ${name}_t *s)
{
    const int32_t even = (s->width + 1) & ~1, stride = $stride, y_step = s->y_step;
    int16_t *const plane = taps + even * s->height;
    for (int32_t i = 0; i < even * s->height; i++) {
        taps[i] = 0;
    }
    for (int32_t i = 0; i < s->plane_size; i++) {
        plane[i] = (int16_t)s->outside;
    }
    for (int32_t c = 0; c < s->channels; c++) {
        const int32_t *const f = s->factors + 4 * c;
        const int32_t bias = f[3];
        for (int32_t i = 0; i < s->height; i++) {
            for (int32_t j = 0; j < s->width; j++) {
                taps[i * even + j] = (int16_t)(256 * *w++);
            }
        }
        for (int32_t i = 0; i < s->rows; i++) {
            const int8_t *from = x + c + i * s->x_row;
            int16_t *to = plane + s->border + i * s->pitch;
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
        for (int32_t i = 0; i < s->out_rows; i++) {
            const int16_t *first = plane + i * s->stride_y * s->pitch;
            int8_t *to = y + c + i * s->y_row;
            for (int32_t left = s->out_columns; left > 0; left -= 4, first += 4 * stride) {
                int32_t s0 = bias, s1 = bias, s2 = bias, s3 = bias;
                const int16_t *row = first, *tap = taps;
                for (int32_t k = 0; k < s->height; k++, row += s->pitch) {
                    const int16_t *at = row;
                    for (const int16_t *const end = tap + even; tap < end; at += 2, tap += 2) {
                        const int32_t pair = ${name}_pair(tap);
                        __asm__("smlad %0, %1, %2, %0" : "+r"(s0) : "r"(${name}_pair(at)), "r"(pair));
                        __asm__("smlad %0, %1, %2, %0" : "+r"(s1) : "r"(${name}_pair(at + stride)), "r"(pair));
                        __asm__("smlad %0, %1, %2, %0" : "+r"(s2) : "r"(${name}_pair(at + 2 * stride)), "r"(pair));
                        __asm__("smlad %0, %1, %2, %0" : "+r"(s3) : "r"(${name}_pair(at + 3 * stride)), "r"(pair));
                    }
                }
                to[0] = ${name}_byte(s0, f);
                if (left > 1) {
                    to[y_step] = ${name}_byte(s1, f);
                }
                if (left > 2) {
                    to[2 * y_step] = ${name}_byte(s2, f);
                }
                if (left > 3) {
                    to[3 * y_step] = ${name}_byte(s3, f);
                }
                to += 4 * y_step;
            }
        }
    }
    if (s->min > -128 || s->max < 127) {
        clamp_dsp(y, s->y_bytes, s->min, s->max);
    }
}
