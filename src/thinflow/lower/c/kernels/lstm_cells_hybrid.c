#include <math.h>
#include "lstm_norm.c"
#include "quantize_rows.c"

/* One of the gates: weights [units, inputs] and [units, outputs] with one scale each, sums of the weights of each unit; bias,
   weights of the cell's own and of a norm [units], or NULL. */
typedef struct {
    const int8_t *weights, *recurrent;
    const int32_t *weights_sums, *recurrent_sums;
    float weights_scale, recurrent_scale;
    const float *bias, *peephole, *norm;
} lstm_hybrid_gate_t;

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t first, y_first; /* where the first step is; the last of all if time runs backwards */
    int32_t inputs, units, outputs;
    bool symmetric; /* how inputs and states are rounded */
    lstm_hybrid_gate_t input, forget, cell, output; /* of the input gate no weights where it is what is not forgotten */
    const int8_t *projection; /* [outputs, units], or NULL */
    const int32_t *projection_sums;
    float projection_scale;
    const float *projection_bias;       /* [outputs], or NULL */
    float cell_limit, projection_limit; /* the most there may be; 0 for all */
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
        float sum = gate->norm == NULL && gate->bias != NULL ? gate->bias[u] : 0.0f;
        sum += ${name}_row(gate->weights + u * s->inputs, gate->weights_sums[u], gate->weights_scale, x, s->inputs);
        sum += ${name}_row(gate->recurrent + u * s->outputs, gate->recurrent_sums[u], gate->recurrent_scale, h, s->outputs);
        sums[u] = gate->peephole != NULL ? sum + gate->peephole[u] * cell[u] : sum;
    }
    if (gate->norm != NULL) {
        lstm_norm(sums, gate->norm, gate->bias, s->units);
    }
}

static float ${name}_within(float x, float limit)
{
    return limit <= 0 ? x : x < -limit ? -limit : x > limit ? limit : x;
}

static float ${name}_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* A layer of LSTM cells over all steps; inputs and states are rounded to bytes in each. h [batches, outputs] and c [batches, units]
   stay from run to run. sums: [5, units]; bytes: the larger of [inputs + outputs] and [units]. */
static void $name(const float *x, float *y, float *h, float *c, float *sums, int8_t *bytes, const ${name}_t *s)
{
    float *const in_gate = sums, *const forget = sums + s->units, *const fresh = sums + 2 * s->units;
    float *const out_gate = sums + 3 * s->units, *const made = sums + 4 * s->units;
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const float *in = x + s->first + step * s->time_step + b * s->batch_step;
            float *state = h + b * s->outputs, *cell = c + b * s->units;
            float *out = y + s->y_first + step * s->y_time_step + b * s->y_batch_step;
            ${name}_bytes_t read = {bytes, 0, 0}, kept = {bytes + s->inputs, 0, 0};
            quantize_rows(in, read.numbers, &read.scale, &read.zero_point, 1, s->inputs, s->symmetric);
            quantize_rows(state, kept.numbers, &kept.scale, &kept.zero_point, 1, s->outputs, s->symmetric);
            ${name}_gate(&s->forget, &read, &kept, cell, forget, s);
            ${name}_gate(&s->cell, &read, &kept, cell, fresh, s);
            if (s->input.weights != NULL) {
                ${name}_gate(&s->input, &read, &kept, cell, in_gate, s);
            }
            for (int32_t u = 0; u < s->units; u++) {
                const float total = fresh[u], f = ${name}_sigmoid(forget[u]);
                const float i = s->input.weights != NULL ? ${name}_sigmoid(in_gate[u]) : 1.0f - f;
                cell[u] = ${name}_within(f * cell[u] + i * ($expression), s->cell_limit);
            }
            /* It looks at the new cell, other than those before. */
            ${name}_gate(&s->output, &read, &kept, cell, out_gate, s);
            for (int32_t u = 0; u < s->units; u++) {
                const float total = cell[u];
                made[u] = ${name}_sigmoid(out_gate[u]) * ($expression);
            }
            if (s->projection != NULL) {
                ${name}_bytes_t cells = {bytes, 0, 0};
                quantize_rows(made, cells.numbers, &cells.scale, &cells.zero_point, 1, s->units, s->symmetric);
                for (int32_t u = 0; u < s->outputs; u++) {
                    float sum = s->projection_bias != NULL ? s->projection_bias[u] : 0.0f;
                    sum += ${name}_row(s->projection + u * s->units, s->projection_sums[u], s->projection_scale, &cells,
                                       s->units);
                    out[u] = ${name}_within(sum, s->projection_limit);
                }
            } else {
                memcpy(out, made, (size_t)s->outputs * sizeof *out);
            }
            memcpy(state, out, (size_t)s->outputs * sizeof *state);
        }
    }
}
