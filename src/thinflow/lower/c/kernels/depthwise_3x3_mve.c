#include "rounded_away_mve.c"

typedef struct {
    const int32_t *factors;      /* of each channel a multiplier, a summand, a shift and 256 times the bias */
    int32_t batches, channels;
    int32_t rows, columns;       /* of the picture, that windows reach */
    int32_t x_row, x_step, x_bytes;
    int32_t border, pitch, plane_size; /* of the plane: before the picture, from row to row, and all; halfwords */
    int32_t out_rows, out_columns, y_row, y_step;
    int32_t y_bytes;
    int32_t outside;             /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* Four neighbours: those of every second column are gathered. */
#define NEIGHBOURS_1(at, offsets) vldrhq_s32(at)
#define NEIGHBOURS_2(at, offsets) vldrhq_gather_shifted_offset_s32(at, offsets)
#define ROUNDED_up(high) (high)
#define ROUNDED_away(high) rounded_away_mve(high)

/* Channel by channel in a plane of halfwords with a border, four neighbours at a time. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int16_t *plane, const ${name}_t *s)
{
    const uint32x4_t from_x = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)s->x_step);
    const uint32x4_t to_y = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)s->y_step);
    const uint32x4_t columns = vidupq_n_u32(0, $stride);
    const int32x4_t least = vdupq_n_s32(s->min), most = vdupq_n_s32(s->max);
    (void)columns;
    for (int32_t i = 0; i < s->plane_size; i++) {
        plane[i] = (int16_t)s->outside;
    }
    for (int32_t b = 0; b < s->batches; b++, x += s->x_bytes, y += s->y_bytes) {
        const int8_t *weight = w;
        for (int32_t c = 0; c < s->channels; c++, weight += 9) {
            const int32_t *const f = s->factors + 4 * c;
            const int32_t multiplier = f[0], summand = f[1], shift = -f[2], bias = f[3] >> 1;
            const int32_t w0 = weight[0] * 128, w1 = weight[1] * 128, w2 = weight[2] * 128;
            const int32_t w3 = weight[3] * 128, w4 = weight[4] * 128, w5 = weight[5] * 128;
            const int32_t w6 = weight[6] * 128, w7 = weight[7] * 128, w8 = weight[8] * 128;
            for (int32_t i = 0; i < s->rows; i++) {
                const int8_t *from = x + c + i * s->x_row;
                int16_t *to = plane + s->border + i * s->pitch;
                for (int32_t left = s->columns; left > 0; left -= 4, from += 4 * s->x_step, to += 4) {
                    const mve_pred16_t some = vctp32q((uint32_t)left);
                    vstrhq_p_s32(to, vldrbq_gather_offset_z_s32(from, from_x, some), some);
                }
            }
            for (int32_t i = 0; i < s->out_rows; i++) {
                const int16_t *r0 = plane + i * $stride * s->pitch, *r1 = r0 + s->pitch, *r2 = r1 + s->pitch;
                int8_t *to = y + c + i * s->y_row;
                for (int32_t left = s->out_columns; left > 0; left -= 4) {
                    int32x4_t sums = vdupq_n_s32(bias);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r0, columns), w0);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r0 + 1, columns), w1);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r0 + 2, columns), w2);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r1, columns), w3);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r1 + 1, columns), w4);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r1 + 2, columns), w5);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r2, columns), w6);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r2 + 1, columns), w7);
                    sums = vmlaq_n_s32(sums, NEIGHBOURS_$stride(r2 + 2, columns), w8);
                    sums = vqdmulhq_n_s32(sums, multiplier);
                    sums = ROUNDED_$halves(sums);
                    sums = vshlq_r_s32(vaddq_n_s32(sums, summand), shift);
                    sums = vminq_s32(vmaxq_s32(sums, least), most);
                    vstrbq_scatter_offset_p_s32(to, to_y, sums, vctp32q((uint32_t)left));
                    r0 += 4 * $stride;
                    r1 += 4 * $stride;
                    r2 += 4 * $stride;
                    to += 4 * s->y_step;
                }
            }
        }
    }
}
