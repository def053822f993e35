typedef struct {
    int32_t rank, count, taps;
    int32_t out[6], stride[6];      /* windows, and elements from one to the next */
    int32_t window[6], dilation[6]; /* taps of one, and elements from one to the next */
} ${name}_t;

/* Where a window or a tap begins, counted in elements. */
static int32_t ${name}_place(int32_t number, const int32_t *sizes, const int32_t *steps, int32_t rank)
{
    int32_t place = 0;
    for (int32_t d = rank - 1; d >= 0; d--) {
        place += number % sizes[d] * steps[d];
        number /= sizes[d];
    }
    return place;
}

/* What stands under each window, one after the other: $what, from a first value on. */
static void $name(const ${c_type} *x, const ${c_type} *first, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count; i++) {
        const ${c_type} *start = x + ${name}_place(i, s->out, s->stride, s->rank);
        ${c_type} a = *first;
        for (int32_t tap = 0; tap < s->taps; tap++) {
            const ${c_type} b = start[${name}_place(tap, s->window, s->dilation, s->rank)];
            a = (${c_type})($expression);
        }
        y[i] = a;
    }
}
