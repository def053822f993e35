#include "strided_copy.c"

typedef struct {
    int32_t rank;                              /* dimensions whose first element is told */
    int32_t told[6], size[6], most[6], step[6]; /* for each: which number tells it, its size, the last that may be first, bytes */
    strided_copy_t copy;
} ${name}_t;

/* A part that begins where numbers say, from the end on if they are negative; one that would lie outside is moved inside. */
static void $name(const void *x, const ${c_type} *begin, void *y, const ${name}_t *s)
{
    int32_t start = 0;
    for (int32_t i = 0; i < s->rank; i++) {
        const ${c_type} first = begin[s->told[i]] < 0 ? (${c_type})(begin[s->told[i]] + s->size[i]) : begin[s->told[i]];
        start += (int32_t)(first < 0 ? 0 : first > s->most[i] ? s->most[i] : first) * s->step[i];
    }
    strided_copy((const uint8_t *)x + start, y, &s->copy);
}
