/* The sum of products of 16 and 8 bits; 256 of them fit into 32 bits, and these sums are added up in 64. */
static int64_t $name(const int16_t *x, const int8_t *w, int32_t depth)
{
    int64_t total = 0;
    for (int32_t start = 0; start < depth; start += 256) {
        const int32_t end = depth - start < 256 ? depth : start + 256;
        int32_t sum = 0;
        for (int32_t k = start; k < end; k++) {
            sum += x[k] * w[k];
        }
        total += sum;
    }
    return total;
}
