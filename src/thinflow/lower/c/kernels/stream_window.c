/* The rows of a window, of which those in the middle were computed in earlier runs: x has the first `left` bytes, `hop` new ones
   and the last `right`, and `state` keeps `kept` of what lies between. */
static void $name(const void *x, void *y, uint8_t *state, int32_t left, int32_t kept, int32_t hop, int32_t right)
{
    const uint8_t *const fresh = (const uint8_t *)x + left;
    uint8_t *const out = y;
    if (hop < kept) {
        memmove(state, state + hop, (size_t)(kept - hop));
        memcpy(state + kept - hop, fresh, (size_t)hop);
    } else {
        memcpy(state, fresh + hop - kept, (size_t)kept);
    }
    memcpy(out, x, (size_t)left);
    memcpy(out + left, state, (size_t)kept);
    memcpy(out + left + kept, fresh + hop, (size_t)right);
}
