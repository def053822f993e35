"""From any model to a graph that runs: variables become constants, tables are filled, ends are named.

    function                      variables    ends guessed    shapes    training switches
    formats.load                  stay         no              no        stay
    sources.open_model            frozen       no              no        stay
    sources.freeze_source         frozen       yes             yes       stay
    graphs.load                   frozen       yes             yes       stay
    graphs.load_for_inference     frozen       yes             yes       set

`freezing` does the work for all but the first, on a graph and the checkpoint beside it; `lifted` puts
what other vocabularies say in TensorFlow's words, for the last two.
"""
