#include <math.h>

/* Of two boxes, each two opposite corners: what they share as a part of what they cover together. */
static float ${name}_overlap(const float *a, const float *b)
{
    const float a_low[2] = {fminf(a[0], a[2]), fminf(a[1], a[3])}, a_high[2] = {fmaxf(a[0], a[2]), fmaxf(a[1], a[3])};
    const float b_low[2] = {fminf(b[0], b[2]), fminf(b[1], b[3])}, b_high[2] = {fmaxf(b[0], b[2]), fmaxf(b[1], b[3])};
    const float a_size = (a_high[0] - a_low[0]) * (a_high[1] - a_low[1]);
    const float b_size = (b_high[0] - b_low[0]) * (b_high[1] - b_low[1]);
    if (a_size <= 0 || b_size <= 0) {
        return 0;
    }
    const float height = fmaxf(fminf(a_high[0], b_high[0]) - fmaxf(a_low[0], b_low[0]), 0.0f);
    const float width = fmaxf(fminf(a_high[1], b_high[1]) - fmaxf(a_low[1], b_low[1]), 0.0f);
    const float shared = height * width;
    return shared / (a_size + b_size - shared);
}

/* The boxes with the best scores, without those that overlap one that is chosen already; with `sigma` above 0 an overlap
   lowers a score, too. left [count] are the scores as they are now, seen [count] how many chosen ones they know of, -1 for
   those that are out. What is not filled is 0. */
static void $name(const float *boxes, const float *scores, const float *most_overlap, const float *least_score,
                  const float *sigma, int32_t *chosen, float *chosen_scores, int32_t *chosen_count, float *left,
                  int32_t *seen, int32_t count, int32_t most)
{
    const float scale = sigma != NULL && *sigma > 0 ? -0.5f / *sigma : 0.0f;
    int32_t found = 0, candidates = 0;
    for (int32_t i = 0; i < count; i++) {
        left[i] = scores[i];
        seen[i] = scores[i] > *least_score ? 0 : -1;
        candidates += seen[i] == 0;
    }
    const int32_t wanted = candidates < most ? candidates : most;
    /* Each turn takes a candidate out, or tells it of one more that is chosen. */
    for (int32_t turn = 0; turn < INT32_MAX && found < wanted; turn++) {
        int32_t best = -1;
        for (int32_t i = 0; i < count; i++) {
            if (seen[i] >= 0 && (best < 0 || left[i] > left[best])) {
                best = i;
            }
        }
        if (best < 0) {
            break;
        }
        float score = left[best];
        bool is_out = false;
        for (int32_t j = found - 1; j >= seen[best] && !is_out; j--) {
            const float overlap = ${name}_overlap(boxes + 4 * best, boxes + 4 * chosen[j]);
            is_out = overlap >= *most_overlap;
            if (!is_out && scale < 0) {
                score *= expf(scale * overlap * overlap);
            }
            if (score <= *least_score) {
                break;
            }
        }
        seen[best] = found;
        if (!is_out && score == left[best]) {
            chosen[found] = best;
            if (chosen_scores != NULL) {
                chosen_scores[found] = score;
            }
            /* It stays a candidate, as in LiteRT: what overlaps itself goes next time, a box without a size comes again. */
            found++;
        }
        left[best] = score;
        if (is_out || score <= *least_score) {
            seen[best] = -1;
        }
    }
    for (int32_t i = found; i < most; i++) {
        chosen[i] = 0;
        if (chosen_scores != NULL) {
            chosen_scores[i] = 0;
        }
    }
    *chosen_count = found;
}
