/* A product is added without being rounded before where one instruction does both. */
#ifdef __FP_FAST_FMAF
#define with_product(sum, a, b) __builtin_fmaf(a, b, sum)
#else
#define with_product(sum, a, b) ((sum) + (a) * (b))
#endif

/* Rows times some of the filters, two rows and eight filters at a time: y [rows, y_step] of x [rows, depth] and
   w [filters / 8, depth, 8]. */
static void $name(const float *x, float *y, const float *w, const float *bias, int32_t rows, int32_t depth, int32_t first,
                  int32_t end, int32_t y_step, float min, float max)
{
    for (int32_t row = 0; row < rows; row += 2) {
        /* The last of an odd number of rows stands in for its neighbour, too. */
        const int32_t next = row + 1 < rows ? row + 1 : row;
        const float *x0 = x + row * depth, *x1 = x + next * depth;
        for (int32_t f = first; f < end; f += 8) {
            const float *block = w + f * depth;
            const int32_t count = end - f < 8 ? end - f : 8;
            float s0[8], s1[8];
            for (int32_t j = 0; j < 8; j++) {
                s0[j] = s1[j] = 0;
            }
            for (int32_t k = 0; k < depth; k++) {
#pragma GCC unroll $unrolled
                for (int32_t j = 0; j < 8; j++) {
                    s0[j] = with_product(s0[j], x0[k], block[8 * k + j]);
                    s1[j] = with_product(s1[j], x1[k], block[8 * k + j]);
                }
            }
            for (int32_t j = 0; j < count; j++) {
                /* Last, as in LiteRT: in another order the last bit is another. */
                s0[j] += bias[f + j];
                s1[j] += bias[f + j];
                s0[j] = s0[j] < min ? min : s0[j];
                s1[j] = s1[j] < min ? min : s1[j];
                y[row * y_step + f + j] = s0[j] > max ? max : s0[j];
                y[next * y_step + f + j] = s1[j] > max ? max : s1[j];
            }
        }
    }
}
