typedef struct {
    int32_t batches, in_height, in_width, channels, out_height, out_width;
    const int32_t *y_lower, *y_upper, *x_lower, *x_upper; /* rows and columns next to each of the output */
    const int32_t *y_part, *x_part;                       /* how far it is from the lower one, with 11 bits behind the point */
} ${name}_t;

/* Pictures of another size: each pixel across two rows, and then between them; rounded once, halves upwards. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    const int32_t row = s->in_width * s->channels;
    for (int32_t b = 0; b < s->batches; b++, x += s->in_height * row) {
        for (int32_t i = 0; i < s->out_height; i++) {
            const ${c_type} *above = x + s->y_lower[i] * row, *below = x + s->y_upper[i] * row;
            for (int32_t j = 0; j < s->out_width; j++) {
                const int32_t left = s->x_lower[j] * s->channels, right = s->x_upper[j] * s->channels;
                for (int32_t c = 0; c < s->channels; c++) {
                    const int32_t up = above[left + c] * 2048 + (above[right + c] - above[left + c]) * s->x_part[j];
                    const int32_t down = below[left + c] * 2048 + (below[right + c] - below[left + c]) * s->x_part[j];
                    *y++ = (${c_type})((up * 2048 + (down - up) * s->y_part[i] + (1 << 21)) >> 22);
                }
            }
        }
    }
}
