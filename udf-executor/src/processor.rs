//! The function as a task of the shared loop ([`executor_rt::node::processor`]), and the end of the
//! process.

use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::node::{self, End, Resume, Task, Verdict, add};
use executor_rt::{interpose, process};
use sys::clock::MonoTime;
use sys::doorbell::EventFd;

use crate::call::Instance;
use crate::context::Context;
use crate::control::Control;
use crate::node::Source;

/// One function, initialised.
#[derive(Debug)]
pub(crate) struct Function {
    instance: Instance,
    context: &'static Context,
}

impl Function {
    /// A function with its context.
    pub(crate) fn new(instance: Instance, context: &'static Context) -> Function {
        Function { instance, context }
    }

    /// Runs until the process has to end.
    pub(crate) fn run(self, resume: Resume, bell: Option<EventFd>) -> End {
        let context = self.context;
        let mut processor = node::Processor::new(self, context.logger);
        let end = processor.run(resume, || {
            if let Some(bell) = bell {
                bell.ring();
            }
        });
        interpose::finalise();
        let node = context.node.borrow();
        process::say_end(context.logger, end, context.log_id.get());
        if let End::Code(code) = end {
            node.ctl().last_code.store(code.0, Ordering::Release);
        }
        node.publish();
        drop(node);
        if end == End::Clean {
            processor.into_task().instance.destroy();
        }
        end
    }

    /// Copies the inputs into the own partition, once a set.
    fn copy_inputs(&mut self) -> Result<(), Code> {
        let mut node = self.context.node.borrow_mut();
        for port in 0..node.copies.len() {
            if node.copies.get(port).is_some_and(Option::is_none) {
                let copy = self.context.copy_payload(&mut node, Source::Input(port));
                let copy = copy.map_err(Code::from_ret_code)?;
                if let Some(place) = node.copies.get_mut(port) {
                    *place = Some(copy);
                }
            }
        }
        Ok(())
    }

    fn proc(&mut self, timing: bool) -> i32 {
        if !timing {
            return self.instance.proc();
        }
        let start = MonoTime::now();
        let code = self.instance.proc();
        let node = self.context.node.borrow();
        add(&node.ctl().user_ns, MonoTime::now().since_ns(start));
        code
    }
}

impl Task for Function {
    type Control = Control;

    const WHAT: &'static str = "proc";

    fn with_node<T>(&mut self, call: impl FnOnce(&mut node::Node<Control>) -> T) -> T {
        call(&mut self.context.node.borrow_mut().shared)
    }

    /// One call of `proc`.
    fn execute(&mut self) -> Verdict {
        let (timing, copies) = {
            let node = self.context.node.borrow();
            (node.options.timing, !node.copies.is_empty())
        };
        if copies && let Err(code) = self.copy_inputs() {
            return Verdict::Answer(code);
        }
        let code = self.proc(timing);
        self.context.node.borrow_mut().release_handles();
        match Code::from_ret_code(code) {
            Code::SUCCESS => Verdict::Done,
            Code::FLOW_FUNC_PROC_PENDING => Verdict::Pending,
            // These fail one id; the process is sound.
            code @ (Code::UDF_PANIC | Code::NO_MBUF | Code::TOO_LARGE) => Verdict::Answer(code),
            code => Verdict::Fatal(code),
        }
    }

    fn release(&mut self) {
        self.context.node.borrow_mut().release_copies();
    }

    fn set_log_id(&mut self, id: Option<u64>) {
        self.context.log_id.set(id);
    }
}
