#include <math.h>

typedef struct {
    int32_t count, rank; /* numbers that are looked up, and those of a place */
    int32_t rows, size;  /* of the table */
    int32_t buckets, shape[8];
} ${name}_t;

/* Rows of a table by number, times weights, summed for each place: $what. Places are sorted; what is outside of the table or of
   the output is left out. */
static void $name(const int32_t *ids, const int32_t *places, const float *weights, const float *table, float *y,
                  const ${name}_t *s)
{
    int32_t current = 0, found = 0;
    float total = 0, squares = 0;
    memset(y, 0, (size_t)(s->buckets * s->size) * sizeof *y);
    for (int32_t i = 0; i <= s->count; i++) {
        int32_t bucket = -1;
        if (i < s->count) {
            int32_t step = 1;
            bucket = 0;
            for (int32_t d = s->rank - 2; d >= 0; d--) {
                bucket += places[i * s->rank + d] * step;
                step *= s->shape[d];
            }
        }
        if (bucket != current) {
            /* The place before is complete. */
            const float divisor = $expression;
            for (int32_t k = 0; k < s->size && found > 0 && current >= 0 && current < s->buckets; k++) {
                y[current * s->size + k] /= divisor;
            }
            current = bucket;
            found = 0;
            total = 0;
            squares = 0;
        }
        if (i < s->count && ids[i] >= 0 && ids[i] < s->rows && bucket >= 0 && bucket < s->buckets) {
            found++;
            total += weights[i];
            squares += weights[i] * weights[i];
            for (int32_t k = 0; k < s->size; k++) {
                y[bucket * s->size + k] += table[ids[i] * s->size + k] * weights[i];
            }
        }
    }
    (void)total;
    (void)squares;
}
