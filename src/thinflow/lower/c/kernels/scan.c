typedef struct {
    int32_t outer, count, inner;
    int32_t exclusive, reverse;
} ${name}_t;

/* Sums of all that stands before, along a dimension. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t o = 0; o < s->outer; o++) {
        for (int32_t i = 0; i < s->inner; i++) {
            ${c_type} total = 0;
            for (int32_t k = 0; k < s->count; k++) {
                const int32_t at = (o * s->count + (s->reverse ? s->count - 1 - k : k)) * s->inner + i;
                const ${c_type} before = total;
                total = (${c_type})(total + x[at]);
                y[at] = s->exclusive ? before : total;
            }
        }
    }
}
