typedef struct {
    int32_t rows, frames, size, step;
    int32_t room; /* samples that are kept of a row */
} ${name}_t;

/* Overlapping frames of a stream, 0 where they are not whole yet. x [rows,frames*step] -> y [rows,frames,size]; kept [rows,room],
   of which so many samples are in use as count says. */
static void $name(const int16_t *x, int16_t *y, bool *is_valid, int16_t *kept, int32_t *count, const ${name}_t *s)
{
    int32_t held = 0;
    bool is_whole = true;
    for (int32_t row = 0; row < s->rows; row++, kept += s->room) {
        held = *count;
        for (int32_t frame = 0; frame < s->frames; frame++, x += s->step, y += s->size) {
            memcpy(kept + held, x, (size_t)s->step * sizeof *x);
            if (held + s->step < s->size) {
                held += s->step;
                memset(y, 0, (size_t)s->size * sizeof *y);
                is_whole = false;
                continue;
            }
            /* The oldest samples: what they are less by is as many as there came. */
            memcpy(y, kept, (size_t)s->size * sizeof *y);
            memmove(kept, kept + s->step, (size_t)held * sizeof *y);
        }
    }
    *count = held;
    *is_valid = is_whole;
}
