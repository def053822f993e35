typedef struct {
    int32_t count, rank, shape[8];
} ${name}_t;

/* The places of what is not zero, a row for each, and their number; zeros behind them. */
static void $name(const ${c_type} *x, int64_t *y, int32_t *rows, const ${name}_t *s)
{
    int32_t found = 0;
    memset(y, 0, (size_t)s->count * (size_t)s->rank * sizeof *y);
    for (int32_t i = 0; i < s->count; i++) {
        if (x[i] != 0) {
            int32_t rest = i;
            for (int32_t d = s->rank - 1; d >= 0; d--) {
                y[found * s->rank + d] = rest % s->shape[d];
                rest /= s->shape[d];
            }
            found++;
        }
    }
    *rows = found;
}
