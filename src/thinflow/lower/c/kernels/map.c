/* Each element by itself: $what. */
static void $name(const ${c_type} *input, ${y_type} *output, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const ${c_type} x = input[i];
        output[i] = (${y_type})($expression);
    }
}
