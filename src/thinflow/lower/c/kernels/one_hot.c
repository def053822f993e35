typedef struct {
    int32_t outer, depth, inner;
} ${name}_t;

/* One value at the place that a number says, another one elsewhere. */
static void $name(const ${index_type} *x, const ${c_type} *on, const ${c_type} *off, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t o = 0; o < s->outer; o++) {
        for (int32_t d = 0; d < s->depth; d++) {
            for (int32_t i = 0; i < s->inner; i++) {
                *y++ = x[o * s->inner + i] == d ? *on : *off;
            }
        }
    }
}
