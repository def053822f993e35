typedef struct {
    int32_t rows, frames, size, step;
} ${name}_t;

/* Frames added up where they overlap. x [rows,frames,size] -> y [rows,frames*step]; kept [rows,size]: sums that go on. */
static void $name(const ${c_type} *x, ${c_type} *y, ${c_type} *kept, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, kept += s->size) {
        for (int32_t frame = 0; frame < s->frames; frame++, x += s->size, y += s->step) {
            for (int32_t i = 0; i < s->size; i++) {
                const ${sum_type} sum = (${sum_type})kept[i] + x[i];
                kept[i] = $stored;
            }
            memcpy(y, kept, (size_t)s->step * sizeof *y);
            memmove(kept, kept + s->step, (size_t)(s->size - s->step) * sizeof *y);
            for (int32_t i = s->size - s->step; i < s->size; i++) {
                kept[i] = 0;
            }
        }
    }
}
