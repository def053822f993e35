/* The bias of each filter, less what the zero point of the input adds to its sums; weights [filters, depth], bias NULL for zero. */
static void $name(const int8_t *w, const int32_t *bias, int32_t *folded, int32_t filters, int32_t depth,
                  int32_t x_zero_point, int32_t w_zero_point)
{
    for (int32_t f = 0; f < filters; f++) {
        int32_t sum = -depth * w_zero_point;
        for (int32_t k = 0; k < depth; k++) {
            sum += w[f * depth + k];
        }
        folded[f] = (bias != NULL ? bias[f] : 0) - x_zero_point * sum;
    }
}
