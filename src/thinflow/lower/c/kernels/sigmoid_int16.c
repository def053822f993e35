typedef struct {
    int32_t count, multiplier, shift; /* to 24 steps for each entry of the table */
    const uint16_t *table;            /* [256] the sigmoid from 0 on, 16 bits behind the point */
} ${name}_t;

/* ${what} between the entries of a table. */
static void $name(const int16_t *x, int16_t *y, const ${name}_t *s)
{
    const int32_t half = s->shift > 0 ? 1 << (s->shift - 1) : 0;
    for (int32_t i = 0; i < s->count; i++) {
        const int32_t at = (x[i] * s->multiplier + half) >> s->shift;
        const int32_t size = at < 0 ? -at : at, entry = size >> $bits;
        int32_t value = $largest;
        if (entry < 255) {
            value = (s->table[entry] << $bits) + (size & ((1 << $bits) - 1)) * (s->table[entry + 1] - s->table[entry]);
        }
        y[i] = (int16_t)((at >= 0 ? $above : $below) >> $back);
    }
}
