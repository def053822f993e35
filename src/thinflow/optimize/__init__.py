"""The main job: unknown model in; proven, measured, small model out.

`job` runs the steps: `job_inputs` opens model and samples, `optimized_graph` rewrites the graph, the
`ModelMaker` of each runtime (`litert`, `onnx`) makes the models, `trial_runs` measures them, `verdict`,
`report` and `report_text` tell of it.

    Core                what of a graph a file holds, with the prologue and epilogue that stay outside
    ConvertedModel      a core as the program of a runtime: `FloatModel` (LiteRT) and `OnnxModel`
    SmallerModel        one in fewer bits: `QuantizedModel` (LiteRT) and `OnnxQuantizedModel`
    Climb               the way to a smaller model's recipe: what was tried on held-out samples, a file in
                        `rungs/` each
    ModelPair           a float model and the smaller one made from it: what a runtime adds to the report
    Coverage            whether a file is the whole model, all behind a decoding front, or a part
"""
