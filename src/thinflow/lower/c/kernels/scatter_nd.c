typedef struct {
    int32_t count, rank, depth; /* of the slices, of the numbers that each has, and elements of a slice */
    int32_t x_step;             /* elements from slice to slice */
    int32_t size[6], step[6];   /* along the dimensions that these name; elements */
} ${name}_t;

/* Slices to where several numbers each say; one that does not exist is left out. */
static void $name(const ${index_type} *places, const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count; i++, x += s->x_step) {
        int32_t start = 0, is_there = 1;
        for (int32_t k = 0; k < s->rank; k++) {
            const ${index_type} at = *places++;
            is_there = is_there && at >= 0 && at < s->size[k];
            start += is_there ? (int32_t)at * s->step[k] : 0;
        }
        for (int32_t k = 0; is_there && k < s->depth; k++) {
            y[start + k] = (${c_type})($sum);
        }
    }
}
