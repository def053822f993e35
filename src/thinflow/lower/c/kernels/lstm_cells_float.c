#include <math.h>
#include "lstm_gates_float.c"

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t first, y_first; /* where the first step is; the last of all if time runs backwards */
    int32_t inputs, units, outputs;
    lstm_any_gate_t input, forget, cell, output; /* of the input gate no weights where it is what is not forgotten */
    const float *projection, *projection_bias;   /* [outputs, units] and [outputs], or NULL */
    float cell_limit, projection_limit;          /* the most there may be; 0 for all */
} ${name}_t;

static float ${name}_within(float x, float limit)
{
    return limit <= 0 ? x : x < -limit ? -limit : x > limit ? limit : x;
}

/* A layer of LSTM cells over all steps, with whatever such cells can have. h [batches, outputs] and c [batches, units] stay
   from run to run. sums: [5, units]. */
static void $name(const float *x, float *y, float *h, float *c, float *sums, const ${name}_t *s)
{
    float *const in_gate = sums, *const forget = sums + s->units, *const fresh = sums + 2 * s->units;
    float *const out_gate = sums + 3 * s->units, *const made = sums + 4 * s->units;
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const float *in = x + s->first + step * s->time_step + b * s->batch_step;
            float *state = h + b * s->outputs, *cell = c + b * s->units;
            float *out = y + s->y_first + step * s->y_time_step + b * s->y_batch_step;
            lstm_gate_sums(&s->forget, in, state, cell, forget, s->inputs, s->outputs, s->units);
            lstm_gate_sums(&s->cell, in, state, cell, fresh, s->inputs, s->outputs, s->units);
            if (s->input.weights != NULL) {
                lstm_gate_sums(&s->input, in, state, cell, in_gate, s->inputs, s->outputs, s->units);
            }
            for (int32_t u = 0; u < s->units; u++) {
                const float total = fresh[u];
                const float f = lstm_sigmoid(forget[u]);
                const float i = s->input.weights != NULL ? lstm_sigmoid(in_gate[u]) : 1.0f - f;
                cell[u] = ${name}_within(f * cell[u] + i * ($expression), s->cell_limit);
            }
            /* It looks at the new cell, other than those before. */
            lstm_gate_sums(&s->output, in, state, cell, out_gate, s->inputs, s->outputs, s->units);
            for (int32_t u = 0; u < s->units; u++) {
                const float total = cell[u];
                made[u] = lstm_sigmoid(out_gate[u]) * ($expression);
            }
            for (int32_t u = 0; u < s->outputs && s->projection != NULL; u++) {
                float sum = s->projection_bias != NULL ? s->projection_bias[u] : 0.0f;
                for (int32_t k = 0; k < s->units; k++) {
                    sum += s->projection[u * s->units + k] * made[k];
                }
                out[u] = ${name}_within(sum, s->projection_limit);
            }
            if (s->projection == NULL) {
                memcpy(out, made, (size_t)s->units * sizeof *out);
            }
            memcpy(state, out, (size_t)s->outputs * sizeof *state);
        }
    }
}
