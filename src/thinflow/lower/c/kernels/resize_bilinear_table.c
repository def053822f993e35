typedef struct {
    int32_t batches, in_height, in_width, channels, out_height, out_width;
    const int32_t *y_lower, *y_upper, *x_lower, *x_upper; /* rows and columns next to each of the output */
    const int32_t *y_part, *x_part;                       /* how far it is from the lower one, with 10 bits behind the point */
    int32_t step;                                         /* from table to table: 256, or 0 for one of all channels */
} ${name}_t;

/* Pictures of another size: each pixel between four, of which tables say what they count as, in integers; rounded once, halves
   away from zero. */
static void $name(const ${c_type} *x, int8_t *y, const int8_t *tables, const ${name}_t *s)
{
    const int32_t row = s->in_width * s->channels;
    for (int32_t b = 0; b < s->batches; b++, x += s->in_height * row) {
        for (int32_t i = 0; i < s->out_height; i++) {
            const ${c_type} *above = x + s->y_lower[i] * row, *below = x + s->y_upper[i] * row;
            const int64_t down = s->y_part[i], up = 1024 - down;
            for (int32_t j = 0; j < s->out_width; j++) {
                const int32_t left = s->x_lower[j] * s->channels, right = s->x_upper[j] * s->channels;
                const int64_t east = s->x_part[j], west = 1024 - east;
                for (int32_t c = 0; c < s->channels; c++) {
                    const int8_t *table = tables + c * s->step;
                    const int64_t sum = table[(uint8_t)above[left + c]] * up * west + table[(uint8_t)below[left + c]] * down * west +
                                        table[(uint8_t)above[right + c]] * up * east + table[(uint8_t)below[right + c]] * down * east;
                    *y++ = (int8_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
                }
            }
        }
    }
}
