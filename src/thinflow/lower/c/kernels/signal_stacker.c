typedef struct {
    int32_t channels, frames, left, step; /* frames: side by side; left: of them those before a frame */
} ${name}_t;

/* Frames side by side, every `step` of them; 0 until there are enough. x [channels] -> y [channels*frames]; kept as y, of which so
   many samples are in use as count says, or -1 before the first. */
static void $name(const int16_t *x, int16_t *y, bool *is_valid, int16_t *kept, int32_t *count, const ${name}_t *s)
{
    const int32_t size = s->channels * s->frames, moved = s->channels * s->step;
    /* The first frame stands for those before it. */
    int32_t held = *count, times = 1;
    if (held < 0) {
        held = 0;
        times += s->left;
    }
    for (; times > 0; times--, held += s->channels) {
        memcpy(kept + held, x, (size_t)s->channels * sizeof *x);
    }
    *is_valid = held >= size;
    if (*is_valid) {
        memcpy(y, kept, (size_t)size * sizeof *y);
        memmove(kept, kept + moved, (size_t)(size - moved) * sizeof *y);
        held -= moved;
    } else {
        memset(y, 0, (size_t)size * sizeof *y);
    }
    *count = held;
}
