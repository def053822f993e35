#include <math.h>
#include "quantize_rows.c"

/* One of the gates: weights [units, inputs] and [units, units] with one scale each, sums of the weights of each unit; bias and
   weights of the cell's own [units], or NULL. */
typedef struct {
    const int8_t *weights, *recurrent;
    const int32_t *weights_sums, *recurrent_sums;
    float weights_scale, recurrent_scale;
    const float *bias, *peephole;
} lstm_hybrid_gate_t;

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t first, y_first; /* where the first step is; the last of all if time runs backwards */
    int32_t inputs, units;
    bool symmetric; /* how inputs and states are rounded */
    lstm_hybrid_gate_t input, forget, cell, output; /* of the input gate no weights where it is what is not forgotten */
    float cell_limit; /* the most there may be; 0 for all */
} ${name}_t;

/* A vector of bytes with its scale and zero point. */
typedef struct {
    int8_t *numbers;
    float scale;
    int32_t zero_point;
} ${name}_bytes_t;

static float ${name}_row(const int8_t *weights, int32_t sum_of_weights, float scale, const ${name}_bytes_t *x, int32_t depth)
{
    int32_t sum = -x->zero_point * sum_of_weights;
    for (int32_t k = 0; k < depth; k++) {
        sum += x->numbers[k] * weights[k];
    }
    return (float)sum * (x->scale * scale);
}

/* The sums of a gate before its activation, [units]. */
static void ${name}_gate(const lstm_hybrid_gate_t *gate, const ${name}_bytes_t *x, const ${name}_bytes_t *h, const float *cell,
                         float *sums, const ${name}_t *s)
{
    for (int32_t u = 0; u < s->units; u++) {
        float sum = gate->bias != NULL ? gate->bias[u] : 0.0f;
        sum += ${name}_row(gate->weights + u * s->inputs, gate->weights_sums[u], gate->weights_scale, x, s->inputs);
        sum += ${name}_row(gate->recurrent + u * s->units, gate->recurrent_sums[u], gate->recurrent_scale, h, s->units);
        sums[u] = gate->peephole != NULL ? sum + gate->peephole[u] * cell[u] : sum;
    }
}

static float ${name}_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* A layer of LSTM cells over all steps; inputs and states are rounded to bytes in each. h and c [batches, units] stay from run
   to run. sums: [4, units], bytes: [inputs + units]. */
static void $name(const float *x, float *y, float *h, float *c, float *sums, int8_t *bytes, const ${name}_t *s)
{
    float *const in_gate = sums, *const forget = sums + s->units, *const fresh = sums + 2 * s->units;
    float *const out_gate = sums + 3 * s->units;
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const float *in = x + s->first + step * s->time_step + b * s->batch_step;
            float *state = h + b * s->units, *cell = c + b * s->units;
            float *out = y + s->y_first + step * s->y_time_step + b * s->y_batch_step;
            ${name}_bytes_t read = {bytes, 0, 0}, kept = {bytes + s->inputs, 0, 0};
            quantize_rows(in, read.numbers, &read.scale, &read.zero_point, 1, s->inputs, s->symmetric);
            quantize_rows(state, kept.numbers, &kept.scale, &kept.zero_point, 1, s->units, s->symmetric);
            ${name}_gate(&s->forget, &read, &kept, cell, forget, s);
            ${name}_gate(&s->cell, &read, &kept, cell, fresh, s);
            if (s->input.weights != NULL) {
                ${name}_gate(&s->input, &read, &kept, cell, in_gate, s);
            }
            for (int32_t u = 0; u < s->units; u++) {
                const float total = fresh[u], f = ${name}_sigmoid(forget[u]);
                const float i = s->input.weights != NULL ? ${name}_sigmoid(in_gate[u]) : 1.0f - f;
                const float next = f * cell[u] + i * ($expression), limit = s->cell_limit;
                cell[u] = limit <= 0 ? next : next < -limit ? -limit : next > limit ? limit : next;
            }
            /* It looks at the new cell, other than those before. */
            ${name}_gate(&s->output, &read, &kept, cell, out_gate, s);
            for (int32_t u = 0; u < s->units; u++) {
                const float total = cell[u];
                out[u] = ${name}_sigmoid(out_gate[u]) * ($expression);
            }
            memcpy(state, out, (size_t)s->units * sizeof *state);
        }
    }
}
