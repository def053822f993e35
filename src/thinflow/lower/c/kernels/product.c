#include "requantize_$rounding.c"

/* Rows times some of the filters, two by two: y [rows, y_step] of x [rows, depth] and w [filters, depth]. */
static void $name(const ${c_type} *x, ${c_type} *y, const int8_t *w, int32_t rows, int32_t depth, int32_t first,
                  int32_t end, int32_t y_step, int32_t w_zero_point, const requantize_${rounding}_t *q)
{
    for (int32_t row = 0; row < rows; row += 2) {
        /* The last of an odd number of rows stands in for its neighbour, too. */
        const int32_t next = row + 1 < rows ? row + 1 : row;
        const ${c_type} *x0 = x + row * depth, *x1 = x + next * depth;
        ${c_type} *y0 = y + row * y_step, *y1 = y + next * y_step;
        int32_t offset0 = 0, offset1 = 0;
        if (w_zero_point != 0) {
            for (int32_t k = 0; k < depth; k++) {
                offset0 += x0[k];
                offset1 += x1[k];
            }
            offset0 *= w_zero_point;
            offset1 *= w_zero_point;
        }
        /* A row by itself goes by four filters. */
        int32_t f = first;
        for (; next == row && f + 4 <= end; f += 4) {
            const int8_t *w0 = w + f * depth, *w1 = w0 + depth, *w2 = w1 + depth, *w3 = w2 + depth;
            int32_t s0 = q->bias[f] - offset0, s1 = q->bias[f + 1] - offset0;
            int32_t s2 = q->bias[f + 2] - offset0, s3 = q->bias[f + 3] - offset0;
#pragma GCC unroll 4
            for (int32_t k = 0; k < depth; k++) {
                s0 += x0[k] * w0[k];
                s1 += x0[k] * w1[k];
                s2 += x0[k] * w2[k];
                s3 += x0[k] * w3[k];
            }
            y0[f] = (${c_type})requantize_$rounding(s0, q, f);
            y0[f + 1] = (${c_type})requantize_$rounding(s1, q, f + 1);
            y0[f + 2] = (${c_type})requantize_$rounding(s2, q, f + 2);
            y0[f + 3] = (${c_type})requantize_$rounding(s3, q, f + 3);
        }
        for (; f < end; f += 2) {
            const int32_t g = f + 1 < end ? f + 1 : f;
            const int8_t *w0 = w + f * depth, *w1 = w + g * depth;
            int32_t s00 = q->bias[f] - offset0, s01 = q->bias[g] - offset0;
            int32_t s10 = q->bias[f] - offset1, s11 = q->bias[g] - offset1;
#pragma GCC unroll 4
            for (int32_t k = 0; k < depth; k++) {
                s00 += x0[k] * w0[k];
                s01 += x0[k] * w1[k];
                s10 += x1[k] * w0[k];
                s11 += x1[k] * w1[k];
            }
            y0[f] = (${c_type})requantize_$rounding(s00, q, f);
            y0[g] = (${c_type})requantize_$rounding(s01, q, g);
            y1[f] = (${c_type})requantize_$rounding(s10, q, f);
            y1[g] = (${c_type})requantize_$rounding(s11, q, g);
        }
    }
}
